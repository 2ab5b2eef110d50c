package overlay

import "math"

// Ids are hashes, so members stand evenly in the id space, and the k nearest of N to a
// key lie within about k/N of it. Who claims otherwise hides members, or has searched
// for keys that hash to where he wants to stand (Castro et al., Secure routing for
// structured peer-to-peer overlay networks, OSDI 2002, §5.2).
const (
	// hidden is how rarely a set of honest members counts as too far apart: once in 2,000,
	// if the estimate of N is half too high; if it is right, much more rarely.
	maxFalseAlarm   = 1. / 2000
	sizeUncertainty = 1.5
	// crowding is how many times closer than the mean the farthest of a set may stand. Five
	// honest ones are closer once in 50,000.
	maxCrowding = 16
)

// plausible says whether the members of who are as near to key as the nearest want of
// the whole network should be.
func (n *Node) plausible(key ID, of []*Contact, want int) bool {
	size := n.estimateSize()
	if size == 0 || len(of) == 0 {
		return false
	}
	if len(of) < want { // then there are no others at all
		return poissonAtMost(len(of), size/sizeUncertainty) >= maxFalseAlarm
	}
	expected := size * idSpaceShare(key, of[len(of)-1].ID) // how many should stand there
	return poissonAtMost(len(of)-1, expected/sizeUncertainty) >= maxFalseAlarm && expected >= float64(len(of))/maxCrowding
}

// doubts says whether those found by a look-up stand so far apart that others must have
// been hidden. A node that has not joined judges by the deepest leaf it has heard of, on
// its way, from somebody who did not offer it: there are as many of that size as fit.
func (n *Node) membersMissing(l *lookup, of []*Contact) bool {
	switch {
	case !l.fromScratch:
		return !n.plausible(l.key, of, l.want)
	case n.state != Alone || len(of) < l.want:
		return false
	}
	size := float64(n.cfg.Network.LeafMerge) * math.Pow(2, float64(n.join.maxDepthHeard))
	return poissonAtMost(len(of)-1, size*idSpaceShare(l.key, of[len(of)-1].ID)) < maxFalseAlarm
}

// estimate is how many members the network has, judging by how close those round the
// node's own id stand; 0 if it is not known.
func (n *Node) estimateSize() float64 {
	if n.state == Active {
		leaf := float64(n.leaf.Len()) * math.Pow(2, float64(n.leaf.Depth()))
		if count := float64(n.Count(0)); leaf/2 <= count && count <= 2*leaf {
			return count
		}
		return leaf // others have counted wrongly, and would be believed by half if they chose the bound
	}
	// A client has heard of all members round its id, and of fewer elsewhere.
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

// fraction is the part of the id space that is as near to key as id is.
func idSpaceShare(key, id ID) float64 {
	return math.Ldexp(float64(key.prefix64()^id.prefix64()), -64)
}

// tooFew is the probability that at most k of members that stand at random stand where
// mean are to be expected: Poisson's.
func poissonAtMost(k int, mean float64) float64 {
	term := math.Exp(-mean)
	sum := term
	for i := 1; i <= k; i++ {
		term *= mean / float64(i)
		sum += term
	}
	return sum
}
