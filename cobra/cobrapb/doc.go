// Package cobrapb is generated from cobra.proto, the specification of the records that cobra
// stores on disk; read that file instead.
package cobrapb
