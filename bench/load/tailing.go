package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const tailingWaitMax = time.Minute // of a Fetch at the log end: none ends without a record while this measures

// arrival is one record that has come to one consumer.
type arrival struct {
	at     time.Time
	offset int64
	err    error
}

// tailing lets j.members consumers wait at the end of a partition, which must be new, while records are appended one
// at a time: the next one when all consumers have the one before. It counts a consumer's record as one answer; latencies
// are from the sending of the Produce to the record in a consumer's hands.
func tailing(ctx context.Context, j job) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrivals := make(chan arrival, j.members)
	for range j.members {
		client, err := atLogEnd(j)
		if err != nil {
			return result{}, err
		}
		defer client.Close()
		go receive(ctx, client, arrivals)
	}
	lanes, closed, err := producers(ctx, j, j.topic, 1)
	if err != nil {
		return result{}, err
	}
	defer closed()
	appended := int64(1) // The producer's first record is one that all have to receive, too.
	if _, err := allReceive(ctx, arrivals, j.members, 0, time.Now(), nil); err != nil {
		return result{}, err
	}
	one := func(took []time.Duration) ([]time.Duration, error) {
		sent := time.Now()
		if err := lanes[0](0); err != nil {
			return took, err
		}
		appended++
		return allReceive(ctx, arrivals, j.members, appended-1, sent, took)
	}
	for range warmRequests {
		if _, err := one(nil); err != nil {
			return result{}, err
		}
	}
	if err := released(); err != nil {
		return result{}, err
	}
	took := make([]time.Duration, 0, j.requests*j.members)
	began := time.Now()
	for range j.requests {
		if took, err = one(took); err != nil {
			return result{}, err
		}
	}
	return withLatencies(summary(len(took), time.Since(began)), took), nil
}

// atLogEnd is a consumer of the first partition from its beginning, which is its end as long as the topic is new.
func atLogEnd(j job) (*kgo.Client, error) {
	return newClient(
		kgo.SeedBrokers(j.broker),
		kgo.FetchMaxWait(tailingWaitMax),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.topic: {0: kgo.NewOffset().At(0)}}))
}

func receive(ctx context.Context, client *kgo.Client, arrivals chan<- arrival) {
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		at := time.Now()
		if err := fetches.Err(); err != nil {
			arrivals <- arrival{err: err}
			return
		}
		fetches.EachRecord(func(record *kgo.Record) { arrivals <- arrival{at: at, offset: record.Offset} })
	}
}

// allReceive waits until every consumer has the record of an offset.
func allReceive(
	ctx context.Context, arrivals <-chan arrival, consumers int, offset int64, sent time.Time, took []time.Duration,
) ([]time.Duration, error) {
	for received := range consumers {
		select {
		case one := <-arrivals:
			if one.err != nil {
				return took, one.err
			}
			if one.offset != offset {
				return took, fmt.Errorf("a consumer has offset %d instead of %d", one.offset, offset)
			}
			took = append(took, one.at.Sub(sent))
		case <-ctx.Done():
			return took, fmt.Errorf("%d of %d consumers have offset %d: %w", received, consumers, offset, ctx.Err())
		}
	}
	return took, nil
}
