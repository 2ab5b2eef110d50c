// Package scribepb is generated from scribe.proto, the wire specification of
// messages between the nodes of a tree; read that instead.
package scribepb
