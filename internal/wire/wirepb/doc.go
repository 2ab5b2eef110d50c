// Package wirepb is generated from wire.proto, the specification of the parts that
// the messages of all layers have in common. Read that file instead.
package wirepb
