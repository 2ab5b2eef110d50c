// Package coronapb is generated from corona.proto and share.proto, the wire
// specification of what pollers of a channel hand on, and of what they say of all of
// theirs; read these instead.
package coronapb
