package feedtree

import (
	"fmt"
	"time"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// A FeedTree is one node's part in all feeds. It is not safe for concurrent use. Its components are listed from the
// lowest to the highest: each knows only components above it in the list.
type FeedTree struct {
	*common
	*cutOffs       // feeds of which other nodes are no longer heard
	*repairer      // gaps in logs, and lost bodies
	*heartbeats    // where logs end, as sequencers sign it
	*deliveries    // what comes down the trees, and who withholds it
	*auditor       // comparisons of logs with parents and owners
	*keyQuestions  // questions to origins about publishers' keys
	*statements    // what publishers say themselves
	*trusts        // publishers' keys that this node trusts
	*entries       // entries, as they are written and read
	*witnesses     // what this node has seen of the feeds that it owns
	*certifier     // what the owners of the feeds that this node leads have seen, or looked for in vain
	*originAudits  // what this node has seen at the origins of feeds that it follows
	*pusher        // publications of this node, on their way
	*reader        // what readers see
	*subscriptions // what readers have asked for
	*acceptor      // publications in feeds that this node leads
	*sequencer     // change reports and branches of feeds that this node leads

	ticks   plans
	resumed bool
}

// New returns the FeedTree of a node, with the subscriptions that its store holds.
func New(e env.Env, node *overlay.Node, s *scribe.Scribe, o *owner.Owners, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (*FeedTree, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &common{
		cfg: cfg.withDefaults(), clock: e.Clock, net: e.Network, rand: e.Rand, log: e.Log,
		node: node, scribe: s, owners: o, signer: signer, verify: verify, app: app,
		refusals: &refusals{clock: e.Clock}, feeds: channels{}, ownerAddrs: map[env.PeerID]env.Peer{},
	}
	f := &FeedTree{common: m, cutOffs: &cutOffs{m}, entries: &entries{common: m, worker: e.Worker}}
	f.repairer = newRepairer(m, f.cutOffs)
	f.heartbeats = newHeartbeats(m, f.cutOffs, f.repairer)
	f.deliveries = newDeliveries(m, f.cutOffs, f.repairer, f.heartbeats)
	f.auditor = newAuditor(m, f.cutOffs, f.repairer, f.deliveries)
	f.keyQuestions = newKeyQuestions(m)
	f.witnesses = &witnesses{common: m, records: map[overlay.ID]*sightRecord{}, entries: f.entries}
	f.certifier = newCertifier(m, f.entries, f.witnesses)
	f.originAudits = newOriginAudits(m, f.entries)
	f.statements = newStatements(m, f.repairer)
	f.trusts = newTrusts(m, f.keyQuestions)
	f.pusher = newPusher(m)
	f.reader = newReader(m, f.cutOffs, f.repairer, f.trusts, f.entries, f.pusher, f.statements, f.originAudits)
	f.subscriptions = &subscriptions{
		common: m, store: e.Store, cutOffs: f.cutOffs, repairer: f.repairer, trusts: f.trusts, reader: f.reader, audits: f.originAudits,
	}
	f.subscriptions.cal = m.newPlans(f.subscriptions.resumeGroup)
	f.trusts.save = f.subscriptions.saveTrust
	f.acceptor = newAcceptor(m, f.keyQuestions, f.pusher, f.entries)
	f.acceptor.spread = f.statements.spread
	f.certifier.appendAccepted = f.acceptor.appendAccepted
	f.sequencer = &sequencer{m, f.entries, f.cutOffs, f.heartbeats, f.deliveries, f.acceptor, f.certifier}
	f.reader.absorb = f.sequencer.Absorb
	f.ticks = m.newPlans(f.tick)
	f.ticks.add(f.after(env.Jitter(f.rand, f.cfg.DigestInterval)), overlay.ID{})
	return f, f.load()
}

// Next returns the time at which something is due, the zero time if nothing is.
func (f *FeedTree) Next() time.Time {
	if !f.resumed {
		return env.AtOnce
	}
	return f.common.cal.Next()
}

// Run does everything that is due and returns Next.
func (f *FeedTree) Run(now time.Time) time.Time {
	if !f.resumed {
		f.resumed = true
		f.resume()
	}
	f.common.run(now)
	return f.Next()
}

// tick does what is due in each digest interval.
func (f *FeedTree) tick(overlay.ID) {
	all, now := f.feeds.sorted(), f.clock.Now()
	f.heartbeats.checkOverdue(all, now)
	f.auditor.compare(all, now)
	f.auditor.audit(all, now)
	f.cutOffs.check(all, now)
	f.reader.handOverItems(all, now)
	f.deliveries.forgetReputations(now)
	f.entries.recent.forget(now)
	f.witnesses.forget()
	f.certifier.contests.check(now)
	f.witnesses.checkLogs()
	f.statements.checkAll(all, now)
	for _, c := range all {
		c.pack()
	}
	f.ticks.add(f.after(env.Jitter(f.rand, f.cfg.DigestInterval)), overlay.ID{})
}

// Stats returns the counters.
func (f *FeedTree) Stats() Stats {
	st := f.stats
	st.Subscriptions = f.subscriptions.count
	for _, c := range f.feeds {
		if c.leader != nil {
			st.Led++
		}
		if c.alone {
			st.Alone++
		}
	}
	if _, ok := f.CutOff(); ok {
		st.CutOff = 1
	}
	return st
}

// HasTree reports whether a group is one of the two trees of a feed that this node follows or leads.
func (f *FeedTree) HasTree(group overlay.ID) bool {
	return f.feeds[group] != nil || f.feeds[ShadowOf(group)] != nil
}

// Deliver handles a message that scribe brought down a tree.
func (f *FeedTree) Deliver(d scribe.Delivery) {
	n, err := parseNews(d.Payload)
	shadowed := f.feeds[ShadowOf(d.Group)]
	switch {
	case err != nil:
	case n.GetObjection() != nil:
		err = f.onObjection(n.GetObjection())
	case shadowed != nil:
		err = f.deliveries.onHead(shadowed, n.GetBeat()) // fails if the news is no heartbeat
	case n.GetStatement() != nil:
		err = f.statements.onStatement("", n.GetStatement())
	case n.GetBeat() != nil:
		err = f.heartbeats.onBeat(n.GetBeat())
	default:
		f.deliveries.onUpdate(d.Group, n.GetUpdate())
	}
	if err != nil {
		f.stats.Garbage++
	}
}

// Receive handles one message of this layer from a peer. An error means that the peer broke the protocol.
func (f *FeedTree) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		f.stats.Garbage++
		return err
	}
	switch b := m.Body.(type) {
	case *feedtreepb.Message_Digest:
		f.auditor.onDigest(from, b.Digest)
	case *feedtreepb.Message_DigestAck:
		f.auditor.onDigestAck(from, b.DigestAck)
	case *feedtreepb.Message_Heads:
		f.auditor.onHeads(from, b.Heads)
	case *feedtreepb.Message_HeadsReply:
		f.auditor.onHeadsReply(from, b.HeadsReply)
	case *feedtreepb.Message_Beats:
		for i := 0; i < len(b.Beats.Beats) && err == nil; i++ {
			err = f.heartbeats.onBeat(b.Beats.Beats[i])
		}
		for i := 0; i < len(b.Beats.Statements) && err == nil; i++ {
			err = f.statements.onStatement(from, b.Beats.Statements[i])
		}
	case *feedtreepb.Message_Push:
		err = f.acceptor.onPush(from, b.Push, false)
	case *feedtreepb.Message_PushReply:
		f.pusher.onPushReply(from, b.PushReply)
	case *feedtreepb.Message_ContentRequest:
		f.pusher.onContentRequest(from, b.ContentRequest)
	case *feedtreepb.Message_Content:
		err = f.acceptor.onContent(from, b.Content)
	case *feedtreepb.Message_WitnessRequest:
		f.keyQuestions.onWitnessRequest(from, b.WitnessRequest)
	case *feedtreepb.Message_WitnessReply:
		err = f.acceptor.onWitnessReply(from, b.WitnessReply)
	case *feedtreepb.Message_SightRequest:
		err = f.witnesses.onSightRequest(from, b.SightRequest)
	case *feedtreepb.Message_Sight:
		err = f.certifier.onSight(from, b.Sight)
	case *feedtreepb.Message_Contest:
		f.certifier.onContest(from, b.Contest)
	case *feedtreepb.Message_Audit:
		err = f.originAudits.onAudit(from, b.Audit)
	case *feedtreepb.Message_Objection:
		err = f.onObjection(b.Objection.Witness)
	}
	if err != nil {
		f.stats.Garbage++
		return fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	return nil
}

// Route handles a message that was routed to this node as the root of a feed's key. A malformed one is only
// counted: the peer that passed it on is not its sender.
func (f *FeedTree) Route(body []byte) {
	m, err := parse(body)
	if err != nil || m.GetPush() == nil || f.acceptor.onPush("", m.GetPush(), true) != nil {
		f.stats.Garbage++
	}
}

// Fetched handles a document that this node has just fetched from the origin of a channel. secure means that
// nobody on the way could have changed the document. doc is nil if the document that this node fetched last has not
// changed.
func (f *FeedTree) Fetched(key overlay.ID, url string, doc *feed.Feed, secure bool) {
	if doc == nil {
		f.witnesses.unchanged(key, url)
		return
	}
	c, head := f.feeds[key], &doc.Head
	leads := c != nil && c.leader != nil && c.leader.ready
	if leads && c.leader.head == nil {
		c.leader.setHead(head) // a publisher may send items before a poll has told anything
	}
	f.witnesses.saw(key, url, doc)
	if c != nil && c.subscribed {
		f.originAudits.saw(c, doc)
	}
	publisher, ok := head.Publisher()
	if !ok || !secure {
		return // a document that names no key withdraws none: the site may have been rebuilt
	}
	f.keyQuestions.answerWitnessRequest(key, publisher)
	if c != nil && c.subscribed {
		f.trusts.keySeen(c, publisher)
	}
	if leads {
		f.acceptor.keySeen(c, publisher)
	}
}

// FetchedPage handles the text of a page that this node has just fetched from the origin of a channel.
func (f *FeedTree) FetchedPage(key overlay.ID, url string, text *page.Core) {
	f.witnesses.sawPage(key, url, text)
}

// onObjection handles another node's objection to the key of a feed's publisher. It proves nothing, because ids are
// cheap, but the origin may be checked.
func (f *FeedTree) onObjection(raw []byte) error {
	w, err := difference.OpenWitness(f.verify, raw)
	if err != nil {
		return err
	}
	c := f.feeds[overlay.Key(f.node.Network(), w.URL)]
	if c == nil || f.clock.Now().Sub(w.Time).Abs() > maxObjectionAge || wire.PeerIDOf(w.Owner) == f.signer.PeerID() {
		return nil
	}
	f.acceptor.objected(c, w)
	f.trusts.objected(c, w)
	return nil
}
