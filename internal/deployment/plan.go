package deployment

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidings/internal/script"
)

// A feedPlan says at which addresses the feeds are, and when which items are published.
type feedPlan struct {
	config  Config
	port    int
	began   time.Time
	scripts []*script.Lively
}

func newPlan(c Config, port int, began time.Time) feedPlan {
	p := feedPlan{config: c, port: port, began: began}
	for i, ch := range c.Channels {
		p.scripts = append(p.scripts, script.NewLively(script.Config{
			Seed: c.Seed<<16 + uint64(i), Link: p.URL(i) + "/", Epoch: began.UTC(), Items: initialItems, Window: windowItems, Every: ch.Every,
		}))
	}
	return p
}

func path(channel int) string { return "/" + strconv.Itoa(channel) }

// URL returns the address of a feed.
func (p *feedPlan) URL(channel int) string {
	host, port := "127.0.0.1", p.port
	if p.config.Polite {
		host = fmt.Sprintf("127.1.%d.%d", channel>>8, channel&0xff)
	}
	return fmt.Sprintf("http://%s:%d%s", host, port, path(channel))
}

// ItemOf returns the number of an item and the time of its publication, from its title, which ends with the
// number.
func (p *feedPlan) ItemOf(channel int, title string) (item int, at time.Time, ok bool) {
	open := strings.LastIndexByte(title, '(')
	if open < 0 || !strings.HasSuffix(title, ")") {
		return 0, time.Time{}, false
	}
	n, err := strconv.Atoi(title[open+1 : len(title)-1])
	if err != nil || n < initialItems {
		return 0, time.Time{}, false // it was there from the beginning
	}
	return n, p.publishedAt(channel, n), true
}

func (p *feedPlan) publishedAt(channel, item int) time.Time {
	return p.began.Add(p.scripts[channel].Item(item).At)
}
