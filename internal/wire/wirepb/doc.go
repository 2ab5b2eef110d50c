// Package wirepb is generated from wire.proto, the wire specification of
// what stands before and around the messages of the layers; read that instead.
package wirepb
