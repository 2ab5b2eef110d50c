// Package scribepb is generated from scribe.proto, the wire specification of
// what the nodes of a tree say to each other; read that instead.
package scribepb
