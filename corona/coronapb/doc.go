// Package coronapb is generated from corona.proto, share.proto and politeness.proto, which specify
// and document the messages of package corona.
package coronapb
