"""Everything that touches a session, a broker, a table or a lock.

Where no key is set, delta-rs's client warns several times of a machine whose metadata may not be asked. Windrow says
what is missing (`io.delta.refusals`), so these warnings are left out; delta-rs reads the variable when it is imported.
"""

import os

os.environ.setdefault("RUST_LOG", "warn,aws_config=error")
