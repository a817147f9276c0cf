// Package terminal is what commands for a person's shell have in common, whatever they do: the terminal that they talk to, how they are declared,
// and which exit code an error ends with. Command podgrace is made of it, and so are programs that it starts.
package terminal
