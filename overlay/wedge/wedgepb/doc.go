// Package wedgepb is generated from wedge.proto, the wire specification of
// what the nodes of a tree say to each other; read that instead.
package wedgepb
