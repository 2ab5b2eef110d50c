package node

import (
	"cmp"

	"tidings/internal/check"
)

// Validate returns an error that names the first wrong field of the layers' configurations.
func (c Config) Validate() error {
	return cmp.Or(
		c.Overlay.Validate(),
		c.Scribe.Validate(),
		c.Owner.Validate(),
		c.Wedges.Validate(),
		c.Sums.Validate(),
		c.Feeds.Validate(),
		c.Corona.Validate(),
		c.Firehose.Validate(),
		c.Tiers.Validate(),
		check.That(c.Corona.Network == c.Overlay.Network.Name, "corona: Network", "is %q; it must be that of the overlay, %q", c.Corona.Network, c.Overlay.Network.Name),
	)
}
