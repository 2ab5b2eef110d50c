// Package overlaypb is generated from overlay.proto, the wire specification of
// what the nodes of the overlay say to each other; read that instead.
package overlaypb
