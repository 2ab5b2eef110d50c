package overlay

import "time"

// A depthVote counts what the members of a leaf say about its depth, as far as they have
// spoken recently and after this node last changed it. other counts those that state a deeper
// leaf (or a less deep one), and own those that state the same depth as this node.
//
// Where a leaf could have either of two depths, history decides, and liars can invent a
// history. So a later decision counts only if several members support it.
type depthVote struct{ other, own int }

// minVotes is the number of votes needed. With so few, it rarely happens that a third come
// from liars.
const minVotes = 4

// overTwoThirds reports whether more than two thirds are for another depth. A node that stands
// alone gives in, whatever it sees itself.
func (v depthVote) overTwoThirds() bool { return v.other >= minVotes && v.other > 2*v.own }

// atLeastThird reports whether a third are for another depth, which is enough to follow if
// either depth is possible. Of two honest groups the one with the later decision prevails
// unless it is smaller than a third; then it follows the other.
func (v depthVote) atLeastThird() bool { return v.other >= minVotes-1 && 2*v.other >= v.own }

// underThird reports whether enough members have voted to see that less than a third are for
// another depth.
func (v depthVote) underThird() bool { return v.other+v.own >= minVotes && !v.atLeastThird() }

// countDepthVotes counts the votes on a deeper leaf, or on a less deep one.
func (lu *leafUpkeep) countDepthVotes(deeper bool, now time.Time) (v depthVote) {
	const lately = 3 * surveyInterval / 2
	for _, c := range lu.leaf.Members() {
		p := lu.peers.get(c.Peer.ID)
		switch depth := lu.leaf.Depth(); {
		case p == nil || p.leafSync == nil || p.leafSync.digestAt.Time().Before(lu.depthChangedAt) || now.Sub(p.leafSync.digestAt.Time()) > lately:
		case int(p.depth) == depth:
			v.own++
		case int(p.depth) > depth == deeper:
			v.other++
		}
	}
	return v
}

// surveyInterval is the shortest time between two surveys of the leaf's depth. It doubles
// after each of the first maxSurveyBackoff surveys, because a liar may contradict for ever.
// surveySize bounds the members asked in one survey.
const (
	surveyInterval   = time.Minute
	maxSurveyBackoff = 2
	surveySize       = 6
)

// surveyDepth asks some members of the leaf for its depth, because one member has
// contradicted.
func (lu *leafUpkeep) surveyDepth(now time.Time) {
	if lu.state != Active || !lu.surveyedAt.IsZero() && now.Sub(lu.surveyedAt) < surveyInterval<<min(lu.surveyCount, maxSurveyBackoff) {
		return
	}
	lu.surveyedAt = now
	lu.surveyCount++
	for range surveySize {
		if p := lu.randomMember(); p != nil {
			lu.liveness.probe(p)
		}
	}
}
