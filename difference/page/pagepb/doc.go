// Package pagepb is generated from page.proto, the wire specification of a page's changes. Read
// that file instead.
package pagepb
