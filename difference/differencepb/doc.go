// Package differencepb is generated from difference.proto, the wire specification
// of what changed in a feed; read that instead.
package differencepb
