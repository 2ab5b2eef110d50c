package overlay

import (
	"slices"

	"tidings/internal/env"
)

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
	if len(j.hosts) == 0 { // no member is left, so the search starts again
		j.state = Alone
		j.nonce = 0
		j.pauseUntil(j.clock.Now().Add(env.Jitter(j.rand, maxJoinPause)))
	}
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
