// Package libp2ppb is generated from dialback.proto, which specifies the
// messages that hosts exchange besides frames. Read that file instead.
package libp2ppb
