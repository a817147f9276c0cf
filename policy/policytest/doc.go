// Package policytest has the words in which tests write down policies, exceptions and pods. Tests import it with a dot, so that a row of a table reads as a
// sentence: PodPolicy("p", Gives("high"), MinGrace(20), ForPods("app", "web")).
package policytest
