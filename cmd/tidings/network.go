package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"tidings/internal/authority"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// A networkCommand is "tidings network".
type networkCommand struct {
	Create createNetworkCommand `cmd:"" help:"Create a network whose members need certificates, and its authority."`
	Key    authorityKeyCommand  `cmd:"" help:"Print the public key of an authority, and make one if there is none."`
	Admit  admitCommand         `cmd:"" help:"Admit a node as a member."`
	Revoke revokeCommand        `cmd:"" help:"Revoke the certificate of a member."`
	List   membersCommand       `cmd:"" help:"List the members that an authority has admitted."`
}

// authorityFlag names the directory of an authority.
type authorityFlag struct {
	Authority string `required:"" placeholder:"DIR" help:"Directory of the authority: its key, and the members that it has admitted."`
}

// A createNetworkCommand is "tidings network create".
type createNetworkCommand struct {
	authorityFlag       `embed:""`
	Name                string   `arg:"" help:"Name of the network."`
	With                []string `placeholder:"KEY" help:"Public key of another authority, which its operator gets from tidings network key. There may be two."`
	AllowPrivateOrigins bool     `help:"The nodes of the network may have private addresses."`

	NetworkFlags networkFlags `embed:"" group:"Parameters of the network:"`
}

// Run creates an authority and the descriptor of its network. The first node founds the network.
func (c *createNetworkCommand) Run(s streams) error {
	if c.Name == "" {
		return usagef("create a network: the name is empty; give it one")
	}
	var others []ed25519.PublicKey
	for _, text := range c.With {
		keys, err := wire.Network{Authorities: text}.AuthorityKeys()
		if err != nil {
			return usageError{error: fmt.Errorf("--with: %w", err)}
		}
		others = append(others, keys...)
	}
	if len(others) >= wire.MaxAuthorities {
		return usagef("--with: give the keys of at most %d other authorities", wire.MaxAuthorities-1)
	}
	check := make(ed25519.PublicKey, ed25519.PublicKeySize) // stands for the key of the authority, which is not made in vain
	if _, err := c.NetworkFlags.network(c.Name, wire.CertificateIDs, wire.JoinAuthorities(append([]ed25519.PublicKey{check}, others...)...)); err != nil {
		return usageError{error: err}
	}
	dir, err := authority.Create(c.Authority)
	if err != nil {
		return err
	}
	n, err := c.NetworkFlags.network(c.Name, wire.CertificateIDs, wire.JoinAuthorities(append([]ed25519.PublicKey{dir.Public()}, others...)...))
	if err != nil {
		return err
	}
	n.PrivateAddresses = c.AllowPrivateOrigins
	if err := dir.SaveNetwork(n); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "network    %s\nhash       %s\nauthority  %s\n\nStart its first node:  tidings run --authority %s\nAdmit others:          tidings network admit --authority %s PEER-ID\n",
		n.Name, wire.HashOf(n.Descriptor()), wire.JoinAuthorities(dir.Public()), proxy.ShellWord(c.Authority), proxy.ShellWord(c.Authority))
	return err
}

// An authorityKeyCommand is "tidings network key".
type authorityKeyCommand struct {
	authorityFlag `embed:""`
}

// Run prints the public key of an authority.
func (c *authorityKeyCommand) Run(s streams) error {
	dir, err := authority.OpenOrCreate(c.Authority)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, wire.JoinAuthorities(dir.Public()))
	return err
}

// An admitCommand is "tidings network admit".
type admitCommand struct {
	authorityFlag `embed:""`
	Name          string   `placeholder:"TEXT" help:"Name of the node or of its operator, for your own list."`
	PeerIDs       []string `arg:"" name:"peer-id" help:"Peer id of the node, which tidings status shows there."`
}

// Run admits nodes. Nodes that are members already are no error.
func (c *admitCommand) Run(s streams) error {
	return eachPeer(c.Authority, c.PeerIDs, func(dir *authority.Dir, p env.PeerID, text string) error {
		done, err := dir.Admit(p, c.Name, time.Now())
		switch {
		case err != nil:
			return err
		case !done:
			_, err = fmt.Fprintf(s.out, "%s is a member already\n", text)
		default:
			_, err = fmt.Fprintf(s.out, "%s is admitted; it becomes a member within a minute while a node of this authority runs\n", text)
		}
		return err
	})
}

// A revokeCommand is "tidings network revoke".
type revokeCommand struct {
	authorityFlag `embed:""`
	PeerIDs       []string `arg:"" name:"peer-id" help:"Peer id of the member."`
}

// Run revokes members.
func (c *revokeCommand) Run(s streams) error {
	return eachPeer(c.Authority, c.PeerIDs, func(dir *authority.Dir, p env.PeerID, text string) error {
		was, done, err := dir.Revoke(p, time.Now())
		if err == nil && !done {
			err = fmt.Errorf("revoke %s: it was revoked already, on %s; tidings network list shows the members", text, was.Revoked.Format(time.DateOnly))
		}
		if err != nil {
			return err
		}
		note := ""
		switch {
		case was.Signs:
			note = "It has been the node of this authority. If it still is, nobody is admitted and no certificate is renewed: tidings network admit undoes this.\n"
		case was.Admitted.IsZero() && !was.Damaged:
			note = "This authority has never admitted it.\n"
		}
		_, err = fmt.Fprintf(s.out, "%s is revoked; the other nodes learn it within a minute while a node of this authority runs\n%s", text, note)
		return err
	})
}

// eachPeer calls do for each of some peer ids, which it checks first.
func eachPeer(path string, texts []string, do func(dir *authority.Dir, p env.PeerID, text string) error) error {
	dir, err := authority.Open(path)
	if err != nil {
		return err
	}
	peers := make([]env.PeerID, len(texts))
	for i, text := range texts {
		if peers[i], err = libp2p.ParsePeerID(text); err != nil {
			return usageError{error: fmt.Errorf("%w; tidings status shows the peer id of a node", err)}
		}
	}
	for i, p := range peers {
		if err := do(dir, p, texts[i]); err != nil {
			return err
		}
	}
	return nil
}

// A membersCommand is "tidings network list".
type membersCommand struct {
	authorityFlag `embed:""`
}

// Run lists the members.
func (c *membersCommand) Run(s streams) error {
	dir, err := authority.Open(c.Authority)
	if err != nil {
		return err
	}
	members, err := dir.Members()
	if err != nil {
		return err
	}
	t := table{terminal: terminalOf(s.out), columns: []column{{head: "PEER ID"}, {head: "ADMITTED"}, {head: "REVOKED"}, {head: "NAME", elastic: 1}}}
	if len(members) == 0 {
		_, err = fmt.Fprintln(s.notes(), "No members yet: the first node that runs with this directory becomes one.")
		return err
	}
	for _, m := range members {
		revoked := cell{dateOf(m.Revoked), yellow}
		if m.Damaged {
			revoked.text = "damaged"
		}
		t.row(cell{text: libp2p.PeerIDString(m.Peer)}, cell{text: dateOf(m.Admitted)}, revoked, cell{text: m.Name})
	}
	_, err = fmt.Fprint(s.out, t.String())
	return errors.Join(err, dir.Check())
}

// dateOf formats a date; empty if it is not known.
func dateOf(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(time.DateOnly)
}
