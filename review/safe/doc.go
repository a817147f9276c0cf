// Package safe writes texts of others, of a manifest or of a policy, so that they steer no terminal, command no CI system and look
// like nothing else in Markdown.
package safe
