// Package feedtreepb is generated from feedtree.proto, the wire specification of
// what goes down a feed's tree; read that instead.
package feedtreepb
