package daemon

import (
	"tidings/internal/locale"
	"tidings/proxy"
)

// uncertifiedFinding returns the finding about a node of a network of certificates that is a client because it has none. signs
// says that it is the node of an authority.
func uncertifiedFinding(snap Snapshot, signs bool) proxy.Finding {
	admit := "tidings network admit " + snap.Peer
	switch {
	case snap.Revoked && signs:
		return proxy.Finding{Level: levelProblem, What: locale.Say("this node of an authority was revoked itself, so it is no member: it admits nobody, and renews no certificate"),
			Do: locale.Say("run %s with --authority, unless another authority has revoked it: its operator has to do that", admit)}
	case snap.Revoked:
		return proxy.Finding{Level: levelNote, What: locale.Say("an authority has revoked the certificate of this node, so it takes part as a client: it reads and does not poll for others"),
			Do: locale.Say("to become a member again, ask the operator of that authority for: %s", admit)}
	}
	return proxy.Finding{Level: levelNote, What: locale.Say("this node has no certificate of the network, so it takes part as a client: it reads and does not poll for others"),
		Do: locale.Say("to become a member, ask an operator of the network for: %s", admit)}
}
