// Package ownerpb is generated from owner.proto, the wire specification of what
// the owners of a key say to each other; read that instead.
package ownerpb
