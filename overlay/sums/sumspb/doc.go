// Package sumspb is generated from sums.proto, the wire specification of the aggregation of a
// value over all members; read that file instead.
package sumspb
