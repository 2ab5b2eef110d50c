package daemon

import (
	"context"
	"fmt"

	"tidings/internal/env"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// Tree returns the node's place in the tree of a feed; see proxy.Subscriptions.
func (st *status) Tree(ctx context.Context, url string) (tree proxy.Tree, err error) {
	if !st.hasJoined() || isPrivateName(url) {
		return tree, nil
	}
	err = st.do(ctx, func() {
		key := st.key(url)
		if _, tree.Quiet = st.node.Quiet(key); tree.Quiet {
			return // the members that stand between have the place
		}
		member := func(peer env.PeerID) *proxy.Member {
			return &proxy.Member{ID: st.node.Overlay.IDOf(peer).String(), PeerID: libp2p.PeerIDString(peer)}
		}
		if v, ok := st.node.Owners.View(key); ok && v.Epoch != nil {
			tree.Leader = member(v.Epoch.Sequencer)
		}
		place, known := st.node.Scribe.Place(key)
		tree.Known, tree.Root, tree.Readers = known, place.Root, place.Weight
		for _, c := range st.node.Scribe.Parents(key) {
			tree.Parents = append(tree.Parents, *member(c.Peer.ID))
		}
		for _, c := range st.node.Scribe.Children(key) {
			tree.Children = append(tree.Children, *member(c.Peer.ID))
		}
		d, ok := st.node.Feeds.LastDelivery(key)
		if !ok {
			return
		}
		tree.Last = &proxy.TreeDelivery{Items: d.Items, Written: d.Written, Arrived: d.Arrived, Known: d.Known}
		if d.From != "" {
			tree.Last.From = member(d.From)
		}
	})
	if err != nil {
		return tree, fmt.Errorf("tree of %s: %w", url, err)
	}
	return tree, nil
}
