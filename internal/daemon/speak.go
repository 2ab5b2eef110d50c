package daemon

import (
	"context"
	"time"

	"tidings/internal/feed"
)

// speakLook is the time between two looks whether a feed that is published here has been silent for too
// long.
const speakLook = time.Second

// speak says for each feed that the node's author publishes that nothing is new, once in its
// beat interval: of one that says nothing for two of them all others think that its publisher is
// gone. What went wrong is tried again after a quarter of the interval.
func (d *Daemon) speak(ctx context.Context) {
	look := time.NewTicker(speakLook)
	defer look.Stop()
	tried := map[string]time.Time{}
	for {
		for url, taken := range d.config.Author.Feeds() {
			beat, err := d.beatOf(ctx, url)
			if err != nil || time.Since(tried[url]) < beat/4 {
				continue
			}
			tried[url] = time.Now()
			if err := d.alive(ctx, url, taken, beat*3/4); err != nil && ctx.Err() == nil {
				d.log.Warn("could not announce that nothing is new", "url", url, "err", err)
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// beatOf is the beat interval of a feed: its publisher's, or else the network's.
func (d *Daemon) beatOf(ctx context.Context, url string) (beat time.Duration, err error) {
	err = d.do(ctx, func() {
		beat = d.home.network.BeatInterval
		if s, ok := d.node.Feeds.Subscription(d.key(url)); ok && s.Publisher != nil && s.Publisher.Beat > 0 {
			beat = s.Publisher.Beat
		}
	})
	return beat, err
}

// alive says that nothing is new in a feed, unless something was said a while ago. Of a feed that has
// taken something the network knows the key, or will when this node has arrived; what nobody has ever
// taken is tried again.
func (d *Daemon) alive(ctx context.Context, url string, taken bool, while time.Duration) error {
	turn, err := d.writing.begin(ctx, url)
	if err != nil {
		return err
	}
	defer turn.end()
	if _, signed := d.config.Author.Feeds()[url]; !signed || d.writing.silence(url) < while {
		return nil // what was signed first was refused meanwhile
	}
	// Something is signed already: that goes out though the origin cannot be read.
	if err := d.tentatively(ctx, url); err != nil {
		return err
	}
	p, err := d.publisher(ctx, url)
	if err != nil || taken && len(p.Key) == 0 {
		return err
	}
	if err := d.known(&p); err != nil {
		return err
	}
	var head feed.Hash
	copy(head[:], p.Head)
	seq, head := turn.after(p.Seq, head)
	return d.config.Author.Alive(url, seq, head, time.Now(), func(envelope []byte) error { return d.pushOwn(ctx, url, envelope, turn, nil) })
}
