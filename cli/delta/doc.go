// Package delta is the difference of two objects, and says in few lines what changes in many: the fields in which two pods differ, a line for
// each, and what objects that are alike are called together. Reviews and comparisons of policies are printed with it.
//
//	Members   where two objects differ, one level at a time: a review's diff is written along it
//	Fields    where two pods differ, all levels down, by the paths of the fields
//	Lines     these as lines
package delta
