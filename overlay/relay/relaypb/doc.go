// Package relaypb is generated from relay.proto, the wire specification of what nodes say to each other that carry
// frames for readers who are not to be seen; read that instead.
package relaypb
