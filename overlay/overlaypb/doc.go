// Package overlaypb is generated from overlay.proto, which is the wire specification
// of the overlay. Read that file instead.
package overlaypb
