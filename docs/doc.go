// Package docs holds the pages for users. Its tests write those that are made from code, and check the links of all.
//
//	go test ./docs -update
package docs
