// Package libp2ppb is generated from dialback.proto, the wire specification of
// what hosts say to each other beside frames; read that instead.
package libp2ppb
