package corona

import "tidings/overlay"

// confirmAtOnce is the number of pollers from which on news is confirmed at once, because three requests for each update
// cost little beside the polls.
const confirmAtOnce = 10

// PollSoon returns how many nodes, the first in the wedge of a channel that this node leads, poll it anyway, so that they
// need not fetch its document only to confirm what another one has found. It is negative if no node is to do that now.
func (sq *sequencer) PollSoon(key overlay.ID) int {
	l := sq.leaders[key]
	switch {
	case l != nil && l.push.pushed() && !sq.pushes.confirm(l, sq.clock.Now()):
		return -1
	case l != nil && l.pollers < confirmAtOnce:
		return l.pollers
	}
	return 0
}

// Looking notes that so many nodes fetch the document of a channel that this node leads only to confirm news. Their
// requests count as load.
func (sq *sequencer) Looking(key overlay.ID, nodes int) {
	if l := sq.leaders[key]; l != nil && nodes > 0 {
		l.looks.add(nodes, sq.clock.Now())
	}
}
