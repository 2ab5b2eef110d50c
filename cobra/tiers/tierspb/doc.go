// Package tierspb holds the messages of cobra/tiers.
package tierspb
