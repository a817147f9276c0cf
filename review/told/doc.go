// Package told says in few lines what changes in many objects: the fields in which two pods differ, a line for each, and what objects that
// are alike are called together. Reviews and comparisons of policies are told by it.
package told
