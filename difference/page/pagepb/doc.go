// Package pagepb is generated from page.proto, the wire specification
// of what changed in a page; read that instead.
package pagepb
