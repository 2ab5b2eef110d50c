package overlay

import "time"

// A vote is what those in the leaf say of its depth who have spoken of it lately, and since
// this node last changed it: how many say that it is deeper, or less deep, than the node
// has it, and how many that it is so.
//
// Where a leaf could have either of two depths, the past decides, which liars can make up as
// they like. So nobody follows one who names a later decision: he has to have company.
type depthVote struct{ other, own int }

// enoughVoices is how many have to have spoken: of so few, hardly ever a third are liars.
const minVotes = 4

// most says whether more than two thirds are for another depth: who stands alone gives in,
// whatever he sees himself.
func (v depthVote) overTwoThirds() bool { return v.other >= minVotes && v.other > 2*v.own }

// some says whether a third are: enough to follow, where either depth would do. Of two honest
// parties the one that has decided later has the others follow, unless it is smaller than
// that; then it follows them.
func (v depthVote) atLeastThird() bool { return v.other >= minVotes-1 && 2*v.other >= v.own }

// few says whether enough have spoken to see that fewer than some are.
func (v depthVote) underThird() bool { return v.other+v.own >= minVotes && !v.atLeastThird() }

// voices counts a vote on a deeper leaf, or on one that is less deep.
func (n *Node) countDepthVotes(deeper bool, now time.Time) (v depthVote) {
	const lately = 3 * surveyInterval / 2
	for _, c := range n.leaf.Members() {
		p := n.peers.get(c.Peer.ID)
		switch depth := n.leaf.Depth(); {
		case p == nil || p.leafSync == nil || p.leafSync.digestAt.time().Before(n.depthChangedAt) || now.Sub(p.leafSync.digestAt.time()) > lately:
		case int(p.depth) == depth:
			v.own++
		case int(p.depth) > depth == deeper:
			v.other++
		}
	}
	return v
}

// surveyPause is the shortest time between two surveys of how deep others say the leaf is,
// doubled after each of the first surveyVain: a liar contradicts for ever. surveySize is how
// many of its members are asked at most.
const (
	surveyInterval   = time.Minute
	maxSurveyBackoff = 2
	surveySize       = 6
)

// survey asks some of the leaf how deep it is, because one member has contradicted.
func (n *Node) surveyDepth(now time.Time) {
	if n.state != Active || !n.surveyedAt.IsZero() && now.Sub(n.surveyedAt) < surveyInterval<<min(n.surveyCount, maxSurveyBackoff) {
		return
	}
	n.surveyedAt = now
	n.surveyCount++
	of := n.leaf.Members()
	for range surveySize {
		c := of[n.rand.IntN(len(of))]
		if p := n.peers.get(c.Peer.ID); c != n.self && p != nil {
			n.probe(p)
		}
	}
}
