// franz consumes or produces with franz-go, as its manual shows:
//
//	franz consume|produce BOOTSTRAP TOPIC GROUP
//
// It authenticates with SASL/PLAIN. The consumer prints the value of every record until SIGTERM;
// the producer, whose default is idempotence, writes thirty records and ends.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	user    = "kwire"
	records = 30
	batch   = 5
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: franz consume|produce BOOTSTRAP TOPIC GROUP")
	}
	way, bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	common := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.SASL(plain.Auth{User: user, Pass: user}.AsMechanism()),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if way == "consume" {
		consume(ctx, append(common, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic)))
	} else {
		produce(ctx, append(common, kgo.RecordPartitioner(kgo.ManualPartitioner())), topic)
	}
}

func consume(ctx context.Context, options []kgo.Opt) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("%s-%d: %v", topic, partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) {
			value, _, _ := bytes.Cut(record.Value, []byte("\n"))
			if record.Value == nil {
				value = []byte("null")
			}
			fmt.Printf("%s\n", value)
		})
	}
}

func produce(ctx context.Context, options []kgo.Opt, topic string) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for first := 0; first < records; first += batch {
		var together []*kgo.Record
		for number := first; number < first+batch; number++ {
			value := fmt.Sprintf("record %03d", number)
			together = append(together, &kgo.Record{Topic: topic, Value: []byte(value)})
		}
		if err := client.ProduceSync(ctx, together...).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
}
