package overlay

import "math"

// Ids are hashes, so members are spread evenly over the id space, and the k members nearest to
// a key out of N lie within about k/N of it. A set that is farther apart hides members; a set
// that is much closer consists of keys that somebody has searched for (Castro et al., Secure
// routing for structured peer-to-peer overlay networks, OSDI 2002, §5.2).
const (
	// maxFalseAlarm is the probability that a set of honest members counts as too far apart:
	// once in 2,000 if the estimate of N is 50 % too high, much less often if it is right.
	maxFalseAlarm   = 1. / 2000
	sizeUncertainty = 1.5
	// maxCrowding is the factor by which the farthest member of a set may be closer than the
	// mean. Five honest members are closer once in 50,000.
	maxCrowding = 16
)

// plausible reports whether the given members are as near to key as the nearest want members
// of the whole network should be.
func (n *Node) plausible(key ID, contacts []*Contact, want int) bool {
	size := n.estimateSize()
	if size == 0 || len(contacts) == 0 {
		return false
	}
	if len(contacts) < want { // the network then has no other members
		return poissonAtMost(len(contacts), size/sizeUncertainty) >= maxFalseAlarm
	}
	expected := size * idSpaceShare(key, contacts[len(contacts)-1].ID) // number of members that should be as near
	return poissonAtMost(len(contacts)-1, expected/sizeUncertainty) >= maxFalseAlarm && expected >= float64(len(contacts))/maxCrowding
}

// membersMissing reports whether the members found by a lookup are so far apart that others
// must be hidden. A node that has not joined judges by the deepest leaf that it has heard of
// on its way, not counting the offered one: the network has enough members to fill leaves of
// that depth.
func (n *Node) membersMissing(l *lookup, contacts []*Contact) bool {
	switch {
	case !l.fromScratch:
		return !n.plausible(l.key, contacts, l.want)
	case n.state != Alone || len(contacts) < l.want:
		return false
	}
	size := float64(n.cfg.Network.LeafMerge) * math.Pow(2, float64(n.join.maxDepthHeard))
	return poissonAtMost(len(contacts)-1, size*idSpaceShare(l.key, contacts[len(contacts)-1].ID)) < maxFalseAlarm
}

// estimateSize returns the estimated number of members of the network, judging by how close
// the members around the node's own id are, or 0 if the node does not know.
func (n *Node) estimateSize() float64 {
	if n.state == Active {
		leaf := float64(n.leaf.Len()) * math.Pow(2, float64(n.leaf.Depth()))
		if count := float64(n.Count(0)); leaf/2 <= count && count <= 2*leaf {
			return count
		}
		return leaf // the counts of others are wrong
	}
	// A client has heard of all members around its id, and of fewer elsewhere.
	const enough = 12
	count := [Bits + 1]int{}
	for _, c := range n.join.pool {
		count[n.self.ID.Common(c.ID)]++
	}
	within := 0
	for d := Bits; d >= 0; d-- {
		if within += count[d]; within >= enough || d == 0 {
			return float64(within) * math.Pow(2, float64(d))
		}
	}
	return 0
}

// idSpaceShare returns the share of the id space that is as near to key as id is.
func idSpaceShare(key, id ID) float64 {
	return math.Ldexp(float64(key.prefix64()^id.prefix64()), -64)
}

// poissonAtMost returns the probability that at most k members are in a region where mean are
// expected, if members are spread at random (Poisson distribution).
func poissonAtMost(k int, mean float64) float64 {
	term := math.Exp(-mean)
	sum := term
	for i := 1; i <= k; i++ {
		term *= mean / float64(i)
		sum += term
	}
	return sum
}
