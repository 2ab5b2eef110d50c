// Package sumspb is generated from sums.proto, the wire specification of how members add
// up a value of all of them; read that instead.
package sumspb
