import { dpdk } from './dpdk.js';
import type { Suite } from './harness/suite.js';
import { indirectCache } from './indirect-cache.js';
import { indirectThreshold } from './indirect-threshold.js';
import { lazyTranslation } from './lazy-translation.js';
import { ringCycle } from './ring-cycle.js';

/** All suites, in the order in which `vring bench` runs them. */
export const suites: readonly Suite[] = [ringCycle, indirectCache, indirectThreshold, lazyTranslation, dpdk];
