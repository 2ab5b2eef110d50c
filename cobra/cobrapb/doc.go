// Package cobrapb is generated from cobra.proto, the specification of what cobra keeps
// on a disk and sends to filters; read that instead.
package cobrapb
