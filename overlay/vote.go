package overlay

import "time"

// A vote is what those in the leaf say of its depth who have spoken of it lately, and since
// this node last changed it: how many say that it is deeper, or less deep, than the node
// has it, and how many that it is so.
//
// Where a leaf could have either of two depths, the past decides, which liars can make up as
// they like. So nobody follows one who names a later decision: he has to have company.
type vote struct{ other, own int }

// enoughVoices is how many have to have spoken: of so few, hardly ever a third are liars.
const enoughVoices = 4

// most says whether more than two thirds are for another depth: who stands alone gives in,
// whatever he sees himself.
func (v vote) most() bool { return v.other >= enoughVoices && v.other > 2*v.own }

// some says whether a third are: enough to follow, where either depth would do. Of two honest
// parties the one that has decided later has the others follow, unless it is smaller than
// that; then it follows them.
func (v vote) some() bool { return v.other >= enoughVoices-1 && 2*v.other >= v.own }

// few says whether enough have spoken to see that fewer than some are.
func (v vote) few() bool { return v.other+v.own >= enoughVoices && !v.some() }

// voices counts a vote on a deeper leaf, or on one that is less deep.
func (n *Node) voices(deeper bool, now time.Time) (v vote) {
	const lately = 3 * surveyPause / 2
	for _, c := range n.leaf.Members() {
		p := n.peers.get(c.Peer.ID)
		switch depth := n.leaf.Depth(); {
		case p == nil || p.leaf == nil || p.leaf.said.time().Before(n.turned) || now.Sub(p.leaf.said.time()) > lately:
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
	surveyPause = time.Minute
	surveyVain  = 2
	surveySize  = 6
)

// survey asks some of the leaf how deep it is, because one member has contradicted.
func (n *Node) survey(now time.Time) {
	if n.state != Active || !n.surveyed.IsZero() && now.Sub(n.surveyed) < surveyPause<<min(n.surveys, surveyVain) {
		return
	}
	n.surveyed = now
	n.surveys++
	of := n.leaf.Members()
	for range surveySize {
		c := of[n.rand.IntN(len(of))]
		if p := n.peers.get(c.Peer.ID); c != n.self && p != nil {
			n.probe(p)
		}
	}
}
