package feedtree

import "time"

const (
	// nodeSilence is how long a node that is not a full member may receive no message from anybody before it counts
	// as cut off. Its hosts answer every 15 s, and a dead host is given up within another 15 s, so this is twice
	// what a live network needs.
	nodeSilence = time.Minute
	// missedDigests is the smallest number of digest intervals without news after which a feed counts as cut off.
	// It matters where polling intervals are so short that a few lost messages would suffice.
	missedDigests = 10
)

// feedSilence returns how long a feed may be silent before this node polls it itself: usually one polling interval.
func (c Config) feedSilence() time.Duration {
	return max(c.PollInterval, missedDigests*c.DigestInterval)
}

// A Config holds the parameters of a FeedTree. A zero field stands for its default.
type Config struct {
	// BeatInterval is the longest time without a message in a feed: the sequencer sends a heartbeat after it.
	// Default 1 h.
	BeatInterval time.Duration
	// DigestInterval is the average time between two comparisons of heads with one parent. Default 1 min.
	DigestInterval time.Duration
	// AuditInterval bounds the time for which a node hears nothing certain about a feed before it compares its head
	// with one of the feed's owners, independently of all trees. The default of 8 min leaves time for a second
	// audit within ten minutes if the first owner does not answer.
	AuditInterval time.Duration
	// PollInterval is the time over which nodes that have to ask an origin themselves spread their requests.
	// Default 30 min.
	PollInterval time.Duration
}

func (c Config) withDefaults() Config {
	if c.BeatInterval == 0 {
		c.BeatInterval = time.Hour
	}
	if c.DigestInterval == 0 {
		c.DigestInterval = time.Minute
	}
	if c.AuditInterval == 0 {
		c.AuditInterval = 8 * time.Minute
	}
	if c.PollInterval == 0 {
		c.PollInterval = 30 * time.Minute
	}
	return c
}
