// Package watch sees, inside a guest and on its clock, how a hog brings a node short of memory and how it ends.
package watch
