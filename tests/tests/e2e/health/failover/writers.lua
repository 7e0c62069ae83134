-- Transactions with marks, written down as they end: one file for each thread.
--
-- Errors are the script's own: with --mysql-ignore-errors, sysbench 1.0.20 connects again by itself
-- in the middle of an error, and crashes.

sysbench.cmdline.options = {
   notes = { "Where to write down how transactions have ended: a path, to which the thread's number is added", "" },
   stop = { "A file; no transaction begins while it is there", "" }
}

local function transaction(mark)
   con = con or drv:connect()
   con:query("BEGIN /* " .. mark .. " */")
   open = true
   con:query("SELECT COUNT(*) FROM failover WHERE mark = '" .. mark .. "'")
   con:query("INSERT INTO failover (mark) VALUES ('" .. mark .. "')")
   con:query("UPDATE failover SET n = n + 1 WHERE mark = '" .. mark .. "'")
   con:query("COMMIT /* " .. mark .. " */")
   open = false
end

function thread_init()
   drv, turn = sysbench.sql.driver(), 0
   notes = assert(io.open(sysbench.opt.notes .. sysbench.tid, "w"))
   notes:setvbuf("line")
end

function event()
   local stop = io.open(sysbench.opt.stop)
   if stop then
      stop:close()
      return
   end
   turn = turn + 1
   local mark = string.format("w%dt%dx", sysbench.tid, turn)
   open = false
   local done, why = pcall(transaction, mark)
   local where = open and "in a transaction: " or "outside: "
   notes:write(done and "done " .. mark or "error " .. where .. tostring(why), "\n")
   if not done and con then
      pcall(con.disconnect, con)
      con = nil
   end
end
