package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// hostsInterval is the time between two searches of a client for more members that act for it. One search is one message and
// its answer, so a client that stays without a second host costs the first one little.
const hostsInterval = time.Minute

// chooseHosts asks the members nearest to the client's id to act for it.
func (j *join) chooseHosts() {
	contacts := slices.DeleteFunc(slices.Clone(j.pool.members), func(c *Contact) bool {
		p := j.peers.get(c.Peer.ID)
		return p != nil && p.isHost || j.liveness.tombstones.diedRecently(c, j.clock.Now())
	})
	for _, c := range nearestN(contacts, j.self.ID, hostsWanted-len(j.hosts)) {
		p := j.ensureContact(c)
		p.isHost = true
		j.hosts = append(j.hosts, p)
		p.probing = false // a probe that is already out does not carry the request
		j.liveness.probe(p)
	}
	switch {
	case len(j.hosts) == 0: // no member is left, so the search starts again
		j.state = Alone
		j.nonce = 0
		j.pauseUntil(j.clock.Now().Add(env.Jitter(j.rand, maxJoinPause)))
	case len(j.hosts) < hostsWanted:
		j.planHosts()
	}
}

func (j *join) planHosts() {
	j.hostsAt = j.clock.Now().Add(hostsInterval)
	j.at(j.hostsAt, task{kind: taskHosts})
}

// findHosts asks a host of a client that has too few for other members. There may have been none when the client attached.
func (j *join) findHosts() {
	if j.self.Member || len(j.hosts) == 0 || len(j.hosts) >= hostsWanted {
		return
	}
	if j.state == Attached {
		j.sendFind(j.hosts[0].contact.Peer)
	}
	j.planHosts()
}

// takeHosts takes the answer to the Find of findHosts.
func (j *join) takeHosts(p *peer, m *overlaypb.Nearby) {
	if !j.findPending || p.id != j.findPeer.ID || j.self.Member || len(j.hosts) >= hostsWanted {
		return
	}
	j.findPending = false
	j.pool.add(j.self.ID, j.idOf(p.id), j.openRecords(m.Records))
	j.chooseHosts()
}

// attachedTo records that a member agreed to act for this client.
func (j *join) attachedTo(p *peer) {
	if !p.isHost || j.self.Member {
		return
	}
	if j.state == Alone {
		j.state = Attached
		j.entryPoints.begin(j.found)
		j.log.Info("attached to the network as a client", "id", j.self.ID.Short(), "host", p.contact.ID.Short())
	}
	if p.attached == env.Never {
		p.attached = env.MomentOf(j.clock.Now())
		j.leafChanged = true
		j.router.release()
	}
}

// detach records that a member no longer acts for this client, and looks for another member.
func (j *join) detach(p *peer) {
	p.isHost, p.attached = false, env.Never
	j.hosts = slices.DeleteFunc(j.hosts, func(q *peer) bool { return q == p })
	j.pool.members = slices.DeleteFunc(j.pool.members, func(c *Contact) bool { return c.Peer.ID == p.id })
	j.leafChanged = true
	if !j.self.Member && j.state != Left {
		j.chooseHosts()
	}
}
