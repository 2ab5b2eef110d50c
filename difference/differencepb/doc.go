// Package differencepb is generated from difference.proto, the wire specification of a feed's
// changes. Read that file instead.
package differencepb
