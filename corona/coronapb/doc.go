// Package coronapb is generated from corona.proto, the wire specification of what
// pollers of a channel hand on; read that instead.
package coronapb
