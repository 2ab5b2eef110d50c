// Package wedgepb is generated from wedge.proto, the wire specification of the
// messages between the members of a wedge; read that instead.
package wedgepb
