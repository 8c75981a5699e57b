// SPDX-License-Identifier: Apache-2.0
// Is told of each exchange of a rank as it runs, so that somebody knows which one a rank waits in.
// The executor tells it of the graph's collectives, a communicator of those between hosts.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plan/collectives.h"

namespace ridge::backends {

// A device that runs collectives after the host has launched them. Any thread may ask.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;
  virtual int64_t finished() const = 0;   // collectives that have ended since the start
  virtual std::string fault() const = 0;  // the library reports it; empty: none
  virtual void abort() const = 0;         // ends those that are under way; they cannot go on
};

class CollectiveListener {
 public:
  virtual ~CollectiveListener() = default;
  // A collective begins, and ends, on the host. `is_finite` is false if this rank brings a value
  // that is not.
  virtual void begin(const plan::Collective& collective, bool is_finite) = 0;
  virtual void end() = 0;
  // Collectives were launched on the device; they end in this order.
  virtual void launched(std::span<const plan::Collective> collectives) = 0;
  // The device that runs what is launched; null: no longer.
  virtual void watch(const DeviceExchange* device) = 0;
};

// Tells of an exchange while it exists; `listener` may be null.
class Told {
 public:
  Told(CollectiveListener* listener, const plan::Collective& collective, bool is_finite = true)
      : listener_(listener) {
    if (listener_ != nullptr) listener_->begin(collective, is_finite);
  }
  ~Told() {
    if (listener_ != nullptr) listener_->end();
  }
  Told(const Told&) = delete;

 private:
  CollectiveListener* listener_;
};

}  // namespace ridge::backends
