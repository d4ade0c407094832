// franz-go in every state at once, until its standard input ends; see python_clients.py.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pause = 250 * time.Millisecond

type state struct {
	Name     string
	Kind     string
	Topics   []string
	ID       string
	ClientID string `json:"client_id"`
}

type task struct {
	Bootstrap string
	States    []state
}

func main() {
	var given task
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		log.Fatal(err)
	}
	for _, one := range given.States {
		go run(given.Bootstrap, one)
	}
	io.Copy(io.Discard, os.Stdin)
}

func run(bootstrap string, s state) {
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ClientID(s.ClientID)}
	switch s.Kind {
	case "assign":
		partitions := map[string]map[int32]kgo.Offset{}
		for _, topic := range s.Topics {
			partitions[topic] = map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
		}
		options = append(options, kgo.ConsumePartitions(partitions))
	case "subscribe":
		options = append(options, kgo.ConsumeTopics(s.Topics...), kgo.ConsumerGroup(s.ID))
	case "transact":
		options = append(options, kgo.TransactionalID(s.ID))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	for {
		switch s.Kind {
		case "assign", "subscribe":
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			fetches := client.PollFetches(ctx)
			cancel()
			if len(fetches.Errors()) == 0 {
				continue
			}
		case "produce":
			client.ProduceSync(context.Background(), &kgo.Record{Topic: s.Topics[0], Value: []byte("value")})
		case "transact":
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			client.ProducerID(ctx)
			cancel()
		}
		time.Sleep(pause)
	}
}
