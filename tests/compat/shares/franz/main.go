// franz-go's client of a share group: it does with each record what its value says, and prints what it got.
//
//	main.go BOOTSTRAP GROUP TOPIC RECORDS
//
// It ends when so many records are accepted or rejected.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type line struct {
	Value    string `json:"value"`
	Delivery int32  `json:"delivery"`
	Error    string `json:"error,omitempty"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := strconv.Atoi(os.Args[4])
	check(err)
	printed := json.NewEncoder(os.Stdout)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ShareGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				printed.Encode(line{Error: err.Error()})
			}
		}),
	)
	check(err)
	for left > 0 {
		fetches := client.PollFetches(ctx)
		check(fetches.Err0())
		fetches.EachRecord(func(record *kgo.Record) {
			value, delivery := string(record.Value), record.DeliveryCount()
			check(printed.Encode(line{Value: value, Delivery: delivery}))
			switch {
			case value == "reject":
				record.Ack(kgo.AckReject)
			case value == "release" && delivery == 1:
				record.Ack(kgo.AckRelease)
				return
			case value == "renew":
				record.Ack(kgo.AckRenew)
				check(client.FlushAcks(ctx))
				record.Ack(kgo.AckAccept)
			default:
				record.Ack(kgo.AckAccept)
			}
			left--
		})
		check(client.FlushAcks(ctx))
	}
	client.LeaveGroup()
	client.Close()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
